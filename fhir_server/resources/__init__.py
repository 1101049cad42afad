"""What a resource is: normalised as HAPI's parser would have it, its references checked, cut down to a summary."""
