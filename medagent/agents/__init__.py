"""Who answers: an agent decides the next message of an episode, whatever the benchmark."""
