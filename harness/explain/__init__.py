"""Why a case changed: what each source sees of it on both sides, after all measuring."""
