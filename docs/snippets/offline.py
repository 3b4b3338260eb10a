import tertium

try:
    tertium.load("some-organisation/some-model")
except tertium.TertiumError as error:
    print(type(error).__name__)
