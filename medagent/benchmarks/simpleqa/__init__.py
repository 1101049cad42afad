"""Short factual questions: asks the model, lets judges label every answer, and stores both. refsol scores."""
