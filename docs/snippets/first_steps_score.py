import tertium

model = tertium.load()
scores = model.score(
    [
        ("The shop is closed on Sundays.", "On Sundays the store does not open."),
        ("The shop is closed on Sundays.", "The shop is open on Sundays."),
        ("The shop is closed on Sundays.", "Our train leaves from platform two."),
    ]
)
print(scores.round(2))
