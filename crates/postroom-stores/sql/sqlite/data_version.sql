-- Changes when another connection has committed something; reads no table.
pragma data_version
