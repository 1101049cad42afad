"""What commands are made of: groups that load late, options worded once, a plan carried out and printed."""
