select version, min_client
from postroom_meta
