from tertium.data.labels import OrderedLabels

relevance = OrderedLabels.named(["not", "slightly", "moderately", "very"])
print(relevance.low, relevance.high, relevance.value("moderately"))
print(relevance.nearest([2.875, 1.333, 7.0]))

grades = OrderedLabels(low=0, high=5, step=0.5)
print(grades.nearest([3.3]), grades.rounded(3.3))
