//! Whom to believe that he is the receiver.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use super::config::Target;

/// Trusts the authorities of the operating system and those of the file. The name of the host is
/// always checked, and nothing can switch that off.
pub(super) fn client(target: &Target, ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    if target.is_https() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if let Some(path) = ca_file {
        let unusable = |why: &dyn ToString| {
            format!("ca_file: {} can not be used: {}", path.display(), why.to_string())
        };
        let certificates = CertificateDer::pem_file_iter(path).map_err(|e| unusable(&e))?;
        let before = roots.len();
        for certificate in certificates {
            let certificate = certificate.map_err(|e| unusable(&e))?;
            roots.add(certificate).map_err(|e| unusable(&e))?;
        }
        if roots.len() == before {
            return Err(unusable(&"it holds no certificate"));
        }
    }
    if target.is_https() && roots.is_empty() {
        return Err("ca_file: this system has no certificates of authorities; install \
                    ca-certificates or name a file"
            .to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
