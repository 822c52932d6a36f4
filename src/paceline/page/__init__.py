"""The front end of the live page and of the report: blocks of data, the files that draw them, and the offline file."""
