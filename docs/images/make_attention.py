"""Draw the two pictures of docs/how-to/look-at-attention.md, small enough for a page.

python docs/images/make_attention.py
"""

import io
from pathlib import Path

from PIL import Image

import tertium
from tertium.analysis import attention_histograms, information_scatter, pair_information
from tertium.data.samples import sample_sentences

FOLDER = Path(__file__).parent
COLOURS = 48


def main() -> None:
    """What ``tertium attention`` draws of the sample sentences, in few colours."""
    model, texts = tertium.load(), sample_sentences()
    figures = {
        "attention-information": information_scatter(pair_information(model, texts)),
        "attention-histograms": attention_histograms(model, texts),
    }
    for name, figure in figures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=100)
        picture = Image.open(buffer).convert("RGB").quantize(COLOURS)
        picture.save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
