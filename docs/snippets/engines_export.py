import tertium
from tertium.engines.export import export

for part in export(tertium.load(engine="torch"), "onnx"):
    print(part.name, part.record.engine)
    print(part.record.parity)
