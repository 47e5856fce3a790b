//! Signatures of Standard Webhooks, version 1.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::secret::Secret;

const PREFIX: &str = "whsec_";

/// The secrets that sign.
pub(super) struct Signer(Vec<Hmac<Sha256>>);

impl Signer {
    pub(super) fn new(secrets: &[Secret]) -> Result<Self, String> {
        secrets
            .iter()
            .enumerate()
            .map(|(at, secret)| key(at, secret))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// One signature for each secret; none if there is no secret.
    pub(super) fn sign(&self, id: &str, seconds: &str, body: &[u8]) -> Option<String> {
        let signatures = self.0.iter().map(|key| {
            let mut mac = key.clone();
            for part in [id.as_bytes(), b".", seconds.as_bytes(), b".", body] {
                mac.update(part);
            }
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        });
        let signatures: Vec<_> = signatures.collect();
        (!signatures.is_empty()).then(|| signatures.join(" "))
    }
}

/// The key in a secret. No error shows any of it.
fn key(at: usize, secret: &Secret) -> Result<Hmac<Sha256>, String> {
    let number = at + 1;
    let text = secret.reveal().strip_prefix(PREFIX);
    let text =
        text.ok_or_else(|| format!("secrets: number {number} does not begin with {PREFIX}"))?;
    let bytes = STANDARD.decode(text);
    let bytes = bytes.map_err(|_| format!("secrets: number {number} is not base64"))?;
    if !(24..=64).contains(&bytes.len()) {
        let length = bytes.len();
        return Err(format!("secrets: number {number} has {length} bytes, and must have 24 to 64"));
    }
    Hmac::new_from_slice(&bytes).map_err(|_| format!("secrets: number {number} is no key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x07_a_signature_is_that_of_the_standard() {
        // The example of the specification of Standard Webhooks.
        let signer =
            Signer::new(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()]).expect("legal");
        let body = br#"{"test": 2432232314}"#;
        let signature = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature.as_deref(), Some(expected));
        assert_eq!(Signer::new(&[]).expect("legal").sign("a", "1", b""), None);
    }

    #[test]
    fn sec_2_a_secret_that_can_not_be_used_is_named_by_its_place() {
        let good = Secret::new(format!("whsec_{}", STANDARD.encode([7; 24])));
        for bad in ["hunter2", "whsec_hunter2!", "whsec_aHVudGVyMg=="] {
            let Err(error) = Signer::new(&[good.clone(), bad.into()]) else { panic!("{bad}") };
            assert!(error.starts_with("secrets: number 2 "), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let long = Secret::new(format!("whsec_{}", STANDARD.encode([7; 65])));
        assert!(Signer::new(&[long]).is_err());
    }
}
