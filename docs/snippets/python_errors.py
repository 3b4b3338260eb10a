import tertium

try:
    tertium.load(pooling="men")
except tertium.TertiumError as error:
    print(error)
