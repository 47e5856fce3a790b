select schema_version, min_client
from postroom_meta
