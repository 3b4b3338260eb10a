from pathlib import Path

from tertium import TertiumError
from tertium.data.readers import read_translation

Path("en.txt").write_text("A cat sleeps.\nA dog barks.\n")
Path("back.txt").write_text("A cat is asleep.\nA dog is barking.\n")
print(read_translation(Path("en.txt"), Path("back.txt"))[0])
Path("back.txt").write_text("A cat is asleep.\n")
try:
    read_translation(Path("en.txt"), Path("back.txt"))
except TertiumError as error:
    print(error)
