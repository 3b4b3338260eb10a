"""What is written down about models, files and jobs, and how it is recognised later."""
