"""HTTP over inference: one process answers, others run the models."""
