from pathlib import Path

from tertium.jobs import Execution, encode_file, iter_vectors, read_vectors

if __name__ == "__main__":  # the workers are processes of their own
    Path("texts.txt").write_text("A cat sleeps.\nA dog barks.\nA cat sleeps.\n")
    finished = encode_file("texts.txt", "vectors", shard_rows=2, execution=Execution(workers=1))
    print(finished.rows, finished.shards, finished.made)

    print(read_vectors("vectors").shape)
    for block in iter_vectors("vectors"):
        print(block.lines.tolist(), block.texts, block.vectors.shape)

    print(encode_file("texts.txt", "vectors").made)
