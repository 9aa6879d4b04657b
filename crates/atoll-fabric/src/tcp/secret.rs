//! The secret that the users of a memory node share.
//!
//! Each side proves that it knows the secret by an HMAC of what the other side has just drawn at
//! random. The secret is never sent. A proof is of no use on another connection.

use crate::FabricError;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::path::Path;
use std::sync::Arc;

/// Fewer bytes can be guessed.
const BYTES_MIN: usize = 16;

/// A proof, as a call has it.
pub(super) type Proof = [u64; 4];

/// A shared secret.
#[derive(Clone)]
pub struct Secret(Arc<[u8]>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// The secret of these bytes; `None` if they are fewer than 16.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= BYTES_MIN).then(|| Self(bytes.into()))
    }

    /// The secret in a file, without the end of its last line.
    ///
    /// # Errors
    /// [`FabricError::System`] if the file cannot be read, or has fewer than 16 bytes.
    pub fn of_file(path: &Path) -> Result<Self, FabricError> {
        let name = path.display().to_string();
        let system = |source| FabricError::System { name: name.clone(), what: "read the secret", source };
        let bytes = std::fs::read(path).map_err(system)?;
        let trimmed = bytes.trim_ascii_end();
        Self::new(trimmed).ok_or_else(|| {
            system(std::io::Error::other(format!("it has {} bytes, and at least {BYTES_MIN} are safe", trimmed.len())))
        })
    }

    fn mac(&self, role: &[u8], drawn: [Proof; 2]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key may have any length");
        mac.update(role);
        drawn.iter().flatten().for_each(|word| mac.update(&word.to_ne_bytes()));
        mac
    }

    fn proof(&self, role: &[u8], drawn: [Proof; 2]) -> Proof {
        let bytes = self.mac(role, drawn).finalize().into_bytes();
        let (words, _) = bytes.as_chunks::<8>();
        std::array::from_fn(|index| u64::from_ne_bytes(words[index]))
    }

    fn is_proof(&self, role: &[u8], drawn: [Proof; 2], proof: Proof) -> bool {
        let bytes: Vec<u8> = proof.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // It takes the same time wherever the two differ.
        self.mac(role, drawn).verify_slice(&bytes).is_ok()
    }
}

const CLIENT: &[u8] = b"atoll client";
const AGENT: &[u8] = b"atoll agent";

/// The secret of those who have none: its proof still binds a connection to its challenge, so that
/// the bytes of a connection are of no use on another one.
fn or_none(secret: Option<&Secret>) -> Secret {
    secret.cloned().unwrap_or_else(|| Secret(Arc::default()))
}

/// The client's proof.
pub(super) fn of_client(secret: Option<&Secret>, challenge: Proof, nonce: Proof) -> Proof {
    or_none(secret).proof(CLIENT, [challenge, nonce])
}

/// Whether the client knows the secret, if there is one.
pub(super) fn is_of_client(secret: Option<&Secret>, challenge: Proof, nonce: Proof, proof: Proof) -> bool {
    or_none(secret).is_proof(CLIENT, [challenge, nonce], proof)
}

/// The agent's proof.
pub(super) fn of_agent(secret: Option<&Secret>, challenge: Proof, nonce: Proof) -> Proof {
    or_none(secret).proof(AGENT, [nonce, challenge])
}

/// Whether the agent knows the secret, if there is one.
pub(super) fn is_of_agent(secret: Option<&Secret>, challenge: Proof, nonce: Proof, proof: Proof) -> bool {
    or_none(secret).is_proof(AGENT, [nonce, challenge], proof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_secret_one_role_and_one_connection() {
        let [one, other] = [b"sixteen bytes !!", b"sixteen bytes !?"].map(|bytes| Secret::new(bytes).unwrap());
        let (challenge, nonce) = ([1, 2, 3, 4], [5, 6, 7, 8]);
        let proof = of_client(Some(&one), challenge, nonce);
        assert!(is_of_client(Some(&one), challenge, nonce, proof));
        assert!(!is_of_client(Some(&other), challenge, nonce, proof));
        assert!(!is_of_client(Some(&one), [1, 2, 3, 5], nonce, proof));
        assert!(!is_of_agent(Some(&one), challenge, nonce, proof));
        assert!(!is_of_client(Some(&one), challenge, nonce, of_client(None, challenge, nonce)));
        assert!(is_of_agent(Some(&one), challenge, nonce, of_agent(Some(&one), challenge, nonce)));
        let none = of_client(None, challenge, nonce);
        assert!(is_of_client(None, challenge, nonce, none) && !is_of_client(None, [0; 4], nonce, none));
        assert!(Secret::new(b"fifteen bytes !").is_none());
    }
}
