"""CMS quality measures as a benchmark: to which populations of a measure does a patient's case belong?"""
