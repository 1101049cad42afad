"""HTTP and JSON in and out: requests, responses, JSON text, Bundles and OperationOutcomes as HAPI writes them."""
