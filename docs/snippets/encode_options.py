import tertium

model = tertium.load()
print(model.encode("one text").shape)
print(model.encode(["a", "b", "a"]).shape)
print(model.encode([]).shape)

unit = model.encode(["a", "b"], normalize=True, output="torch")
print(unit.norm(dim=1).tolist())
