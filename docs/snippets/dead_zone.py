import torch

from tertium.objectives.regression import (
    absolute_error,
    smooth_k2,
    squared_error,
    translated_relu,
)

errors = torch.tensor([0.0, 0.2, 0.25, 0.5, 1.0])
gold = torch.zeros(5)
for name, values in {
    "error": errors,
    "L1": absolute_error(errors, gold),
    "MSE": squared_error(errors, gold),
    "Translated ReLU": translated_relu(errors, gold, slope=2.0, threshold=0.25),
    "Smooth K2": smooth_k2(errors, gold, slope=2.0, threshold=0.25),
}.items():
    print(f"{name:<16}", *(f"{value:.2f}" for value in values.tolist()))
