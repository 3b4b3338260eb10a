"""tertium's models as what other libraries expect: one thin class each, imported on its own.

| module | gives | needs |
|---|---|---|
| ``integrations.sklearn`` | ``TertiumVectorizer``, a transformer | scikit-learn |
| ``integrations.langchain`` | ``TertiumEmbeddings`` | langchain-core |
| ``integrations.llama_index`` | ``TertiumEmbedding`` | llama-index-core |
| ``integrations.haystack`` | ``TertiumTextEmbedder``, ``TertiumDocumentEmbedder`` | haystack-ai |
| ``integrations.spacy`` | the pipe ``tertium``, for ``doc.similarity`` | spacy |
"""
