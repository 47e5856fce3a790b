//! Whom to trust.

use std::path::Path;
#[cfg(any(feature = "nats", feature = "redis"))]
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
#[cfg(any(feature = "nats", feature = "redis"))]
use tokio::task::spawn_blocking;

/// As [`build`], for where files must not be read.
#[cfg(any(feature = "nats", feature = "redis"))]
pub(crate) async fn client(ca_file: Option<PathBuf>) -> Result<ClientConfig, String> {
    let made = spawn_blocking(move || build(ca_file.as_deref())).await;
    made.map_err(|error| error.to_string())?
}

/// A client that trusts the authorities of the system and those in the file. It asks for no
/// process-wide provider of cryptography, which is the application's to choose.
///
/// # Errors
/// A text for people.
pub(crate) fn build(ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // What can not be read is missing, and a server that needs it is refused.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        let problem =
            |error: &dyn std::fmt::Display| format!("ca_file {}: {error}", path.display());
        let before = roots.len();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| problem(&error))? {
            let certificate = certificate.map_err(|error| problem(&error))?;
            roots.add(certificate).map_err(|error| problem(&error))?;
        }
        if roots.len() == before {
            return Err(problem(&"holds no certificate"));
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
