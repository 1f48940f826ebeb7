"""The equality tree of Gryphon: levels of attributes, built in batches and searched in compiled loops."""
