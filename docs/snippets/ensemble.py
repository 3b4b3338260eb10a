import tertium
from tertium.models import Ensemble

one, other = tertium.load(), tertium.load(pooling="cls")
both = Ensemble([one, other], weights=[1.0, 0.5])
print(both.encode(["A cat sleeps.", "A dog barks."]).shape)
print([member.weight for member in both.members])
