from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from tertium.integrations.sklearn import TertiumVectorizer

texts = ["The invoice is wrong.", "I was charged twice.", "Where is my parcel?", "It is late."]
topics = ["billing", "billing", "delivery", "delivery"]

pipeline = make_pipeline(TertiumVectorizer("default"), LogisticRegression(C=100.0))
pipeline.fit(texts, topics)
print(pipeline.predict(["My bill has a mistake.", "The package is late."]))
