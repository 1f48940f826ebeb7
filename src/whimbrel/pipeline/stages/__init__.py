"""Stages of a pipeline: functions from DataFrame to DataFrame, one package for each stage."""
