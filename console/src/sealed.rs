//! The session cookie of a caller in the cluster: the token and its expiry, encrypted with a key that only
//! this process has. The console therefore stores no sessions, and the cookie is useless elsewhere.

use std::time::{Duration, SystemTime};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom as _, SystemRandom},
};
use secrecy::ExposeSecret as _;

use super::{entry::NoRandomness, site::Pass, token::Token};

/// How long a cookie is valid, unless the token expires before.
const LIFE: Duration = Duration::from_secs(8 * 3600);
/// The longest cookie value: browsers drop a cookie of more than 4,096 bytes, name and attributes included.
const LONGEST: usize = 3_900;
/// The associated data of the encryption.
const PURPOSE: &[u8] = b"copyrator console session v1";
/// The length of a time, in bytes.
const TIME: usize = 8;

/// Why a token gets no cookie.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsealed {
    #[error("This token has expired.")]
    Over,
    #[error("This token is too long for a cookie: send it with curl as Authorization: Bearer.")]
    TooLong,
    #[error("The operating system returned no random bytes.")]
    Randomness,
}

/// The key of one process, made at its start.
pub(super) struct Seal {
    key: LessSafeKey,
    random: SystemRandom,
}

impl Seal {
    /// A new key.
    ///
    /// # Errors
    /// The operating system has no random bytes.
    pub(super) fn new() -> Result<Self, NoRandomness> {
        let random = SystemRandom::new();
        let mut bytes = vec![0; AES_256_GCM.key_len()];
        random.fill(&mut bytes).map_err(|_| NoRandomness)?;
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| NoRandomness)?;
        Ok(Self { key: LessSafeKey::new(key), random })
    }

    /// Creates a cookie for this token. Each cookie has a random nonce; a key suffices for some 4,000,000,000
    /// cookies, and a process makes few.
    ///
    /// # Errors
    /// The token has expired, or is too long.
    pub(super) fn seal(&self, token: &Token, now: SystemTime) -> Result<Pass, Unsealed> {
        let until = token.ends().map_or(now + LIFE, |ends| ends.min(now + LIFE));
        let life = until.duration_since(now).ok().filter(|life| life.as_secs() > 0).ok_or(Unsealed::Over)?;
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| Unsealed::Randomness)?;
        let mut text = seconds(until).to_be_bytes().to_vec();
        text.extend_from_slice(token.secret().expose_secret().as_bytes());
        let sealed = self.key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(PURPOSE),
            &mut text,
        );
        sealed.map_err(|_| Unsealed::TooLong)?;
        let value = URL_SAFE_NO_PAD.encode([&nonce[..], &text].concat());
        match value.len() <= LONGEST {
            true => Ok(Pass { value, life: Some(life) }),
            false => Err(Unsealed::TooLong),
        }
    }

    /// The token of a cookie; `None` if the cookie is from a different process, or has expired.
    pub(super) fn open(&self, value: &str, now: SystemTime) -> Option<Token> {
        let mut sealed = URL_SAFE_NO_PAD.decode(value).ok()?;
        let (nonce, text) = sealed.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.key.open_in_place(nonce, Aad::from(PURPOSE), text).ok()?;
        let (until, token) = opened.split_at_checked(TIME)?;
        let until = u64::from_be_bytes(until.try_into().ok()?);
        let token = std::str::from_utf8(token).ok().filter(|_| seconds(now) < until)?;
        Token::read(token)
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_cookie_holds_its_token_for_eight_hours_and_no_longer_than_the_token_lasts() {
        let (seal, now) = (Seal::new().unwrap(), at(1_000_000));
        let token = Token::read("opaque").unwrap();
        let pass = seal.seal(&token, now).unwrap();
        assert_eq!(pass.life, Some(LIFE));
        let opened = |value: &str, now| seal.open(value, now).map(|token| token.id());
        assert!(opened(&pass.value, now) == Some(token.id()));
        assert!(opened(&pass.value, now + LIFE - Duration::from_secs(1)).is_some());
        assert!(opened(&pass.value, now + LIFE).is_none(), "it has expired");
        assert!(!pass.value.contains("opaque") && pass.value != seal.seal(&token, now).unwrap().value);

        let short = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(r#"{"exp": 1000060}"#));
        let short = Token::read(&short).unwrap();
        let pass = seal.seal(&short, now).unwrap();
        assert_eq!(pass.life, Some(Duration::from_secs(60)));
        assert!(opened(&pass.value, at(1_000_059)).is_some() && opened(&pass.value, at(1_000_060)).is_none());
        assert_eq!(seal.seal(&short, at(1_000_060)).err(), Some(Unsealed::Over));
        let long = Token::read(&"a".repeat(4_000)).unwrap();
        assert_eq!(seal.seal(&long, now).err(), Some(Unsealed::TooLong));
    }

    #[test]
    fn what_was_changed_or_is_of_another_process_is_not_taken() {
        let (seal, now) = (Seal::new().unwrap(), at(1_000_000));
        let pass = seal.seal(&Token::read("opaque").unwrap(), now).unwrap();
        assert!(Seal::new().unwrap().open(&pass.value, now).is_none(), "another process");
        let bytes = URL_SAFE_NO_PAD.decode(&pass.value).unwrap();
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert!(seal.open(&URL_SAFE_NO_PAD.encode(changed), now).is_none(), "byte {place}");
            assert!(seal.open(&URL_SAFE_NO_PAD.encode(&bytes[..place]), now).is_none(), "{place} bytes");
        }
        assert!(seal.open("", now).is_none() && seal.open("nonsense!", now).is_none());
    }
}
