"""The default dialect: a SQL WHERE clause."""
