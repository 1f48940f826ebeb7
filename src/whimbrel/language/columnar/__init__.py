"""The columnar form of many filters, in any dialect: what bulk loads are made of."""
