//! MySQL and MariaDB pass the suite that every store passes.

#![cfg(feature = "mysql")]

mod mysql_support;

use mysql_support::My;

postroom_testkit::store_conformance!(My);
