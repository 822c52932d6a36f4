"""Words, colours and number formats shared by the terminal and the report page. No drawing: no rich, no HTML."""
