import tertium

grader = tertium.load("sts")
grades = grader.score(
    [
        ("The shop is closed on Sundays.", "On Sundays the store does not open."),
        ("The shop is closed on Sundays.", "The shop is open on Sundays."),
        ("The shop is closed on Sundays.", "Our train leaves from platform two."),
    ]
)
print(grader.scale, grades.round(1))
