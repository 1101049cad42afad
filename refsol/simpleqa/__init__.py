"""SimpleQA and HuSimpleQA graded: verdicts read under named rules, every row accounted for. Standard library only."""
