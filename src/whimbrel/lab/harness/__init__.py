"""What every experiment of the lab shares.

experiment                  what an experiment is: a question, points, measurements, claims
running                     runs experiments: counted points on Spark, timed ones alone
contenders                  matchers and the engine side by side, loaded, compared, timed or counted
measures, claims            the table of measures, and claims as predicates on it
panels                      plots
result_store, code_version  results on disk, under the version of the code that was measured
"""
