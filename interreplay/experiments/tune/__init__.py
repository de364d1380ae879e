"""Many runs through Ray Tune."""
