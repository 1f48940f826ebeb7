"""Stages of a pipeline, each a function from DataFrame to DataFrame, one package per stage."""
