"""Other libraries use our models through the classes that they know: `make test-integrations`.

Only scikit-learn lives in the test environment; the others are tried in one of their own.
"""

import pickle

import numpy as np
import pytest

import tertium

TEXTS = ["A cat sleeps.", "A kitten is napping.", "Stocks fell sharply."]


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return tertium.load().encode(TEXTS, normalize=True)


def test_lazy_embedder_pickles_its_name_not_its_weights() -> None:
    from tertium.integrations.lazy_model import LazyEmbedder

    embedder = LazyEmbedder()
    first = embedder.encode(TEXTS)
    again = pickle.loads(pickle.dumps(embedder))
    assert len(pickle.dumps(embedder)) < 500
    assert np.array_equal(again.encode(TEXTS), first)


def test_scikit_learn(rows: np.ndarray) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed here")
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    from tertium.integrations.sklearn import TertiumVectorizer

    vectorizer = TertiumVectorizer()
    with pytest.raises(NotFittedError):
        vectorizer.transform(TEXTS)
    assert np.array_equal(vectorizer.fit_transform(TEXTS), rows)
    assert len(vectorizer.get_feature_names_out()) == rows.shape[1]
    copy = clone(vectorizer.set_params(normalize=False))
    assert copy.get_params() == {"model": "default", "engine": "default", "normalize": False}

    pipeline = make_pipeline(TertiumVectorizer(), LogisticRegression(C=100.0))
    pipeline.fit(TEXTS, ["pets", "pets", "money"])
    saved = pickle.dumps(pipeline)
    assert len(saved) < 100_000
    assert list(pickle.loads(saved).predict(["A dog naps.", "Shares rose."])) == ["pets", "money"]
    with pytest.raises(tertium.TertiumError, match="gives no vectors"):
        TertiumVectorizer("conditional").fit(TEXTS)


def test_langchain(rows: np.ndarray) -> None:
    pytest.importorskip("langchain_core", reason="make test-integrations brings LangChain")
    from langchain_core.vectorstores import InMemoryVectorStore

    from tertium.integrations.langchain import TertiumEmbeddings

    embeddings = TertiumEmbeddings()
    assert np.allclose(embeddings.embed_documents(TEXTS), rows)
    store = InMemoryVectorStore.from_texts(TEXTS[1:], embeddings)
    (found,) = store.similarity_search(TEXTS[0], k=1)
    assert found.page_content == TEXTS[1]


def test_llama_index(rows: np.ndarray) -> None:
    pytest.importorskip("llama_index.core", reason="make test-integrations brings LlamaIndex")
    from llama_index.core import Document, VectorStoreIndex

    from tertium.integrations.llama_index import TertiumEmbedding

    embedding = TertiumEmbedding()
    assert np.allclose(embedding.get_text_embedding_batch(TEXTS), rows)
    documents = [Document(text=text) for text in TEXTS[1:]]
    index = VectorStoreIndex.from_documents(documents, embed_model=embedding)
    (found,) = index.as_retriever(similarity_top_k=1).retrieve(TEXTS[0])
    assert found.text == TEXTS[1]


def test_haystack(rows: np.ndarray) -> None:
    pytest.importorskip("haystack", reason="make test-integrations brings Haystack")
    from haystack import Document, Pipeline
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    from tertium.integrations.haystack import TertiumDocumentEmbedder, TertiumTextEmbedder

    embedded = TertiumDocumentEmbedder().run([Document(content=text) for text in TEXTS[1:]])
    store = InMemoryDocumentStore()
    store.write_documents(embedded["documents"])
    pipeline = Pipeline()
    pipeline.add_component("embed", TertiumTextEmbedder())
    pipeline.add_component("find", InMemoryEmbeddingRetriever(store, top_k=1))
    pipeline.connect("embed.embedding", "find.query_embedding")
    found = pipeline.run({"embed": {"text": TEXTS[0]}})["find"]["documents"]
    assert [document.content for document in found] == [TEXTS[1]]
    assert np.allclose(embedded["documents"][0].embedding, rows[1])
    copy = TertiumTextEmbedder.from_dict(TertiumTextEmbedder("sts").to_dict())
    assert copy.embedder.name == "sts"


def test_spacy() -> None:
    spacy = pytest.importorskip("spacy", reason="make test-integrations brings spaCy")
    import tertium.integrations.spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("tertium", config={"model": "sts"})
    one, other = nlp(TEXTS[0]), nlp(TEXTS[1])
    expected = tertium.load("sts").score([(TEXTS[0], TEXTS[1])])[0]
    assert one.similarity(other) == pytest.approx(float(expected))
    assert one[:2].similarity(other[:2]) > 0
    assert one.vector.shape == (384,)


def test_pandas_and_polars(rows: np.ndarray) -> None:
    model = tertium.load()
    expected = model.score([(TEXTS[0], TEXTS[1]), (TEXTS[0], TEXTS[2])])
    columns = {"a": [TEXTS[0], TEXTS[0]], "b": TEXTS[1:]}
    pandas = pytest.importorskip("pandas", reason="make test-integrations brings pandas")
    frame = pandas.DataFrame(columns)
    frame["score"] = model.score(frame[["a", "b"]].itertuples(index=False))
    assert np.allclose(frame["score"], expected)
    assert np.allclose(model.encode(frame["b"], normalize=True), rows[1:])
    polars = pytest.importorskip("polars", reason="make test-integrations brings Polars")
    table = polars.DataFrame(columns)
    assert np.allclose(model.score(table.select("a", "b").iter_rows()), expected)
    assert np.allclose(model.encode(table["b"], normalize=True), rows[1:])
