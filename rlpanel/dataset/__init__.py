"""A run as a dataset for engines of other projects: steps as Arrow tables, parquet files and in dask."""
