import tempfile
from pathlib import Path

import tertium

model = tertium.load("default")
folder = Path(tempfile.mkdtemp()) / "my-model"
model.save(folder)  # what model.push_to_hub("someone/my-model") uploads
print(tertium.load(folder).fingerprint == model.fingerprint)
