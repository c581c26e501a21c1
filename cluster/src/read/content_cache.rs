//! Cache of the content that is being written, which keeps content for as long as a fan-out lasts, and at
//! most 16 MiB. The cache drops the least recently used content first; a task that still needs the content
//! reads it again.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::decoded::Content;
use crate::names::ObjectKey;

/// How long content is kept after its last use.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// The most bytes of all cached content.
const MOST_BYTES: usize = 16 << 20;

/// Content by object. The cache has no `Debug`, so its content cannot reach a formatter.
#[derive(Default)]
pub(super) struct ContentCache {
    by_object: HashMap<ObjectKey, Entry>,
    bytes: usize,
    uses: u64,
}

struct Entry {
    content: Arc<Content>,
    bytes: usize,
    used: (Instant, u64),
}

impl ContentCache {
    /// The content of an object in this version, if it is cached.
    pub(super) fn get(&self, key: &ObjectKey, version: &str) -> Option<Arc<Content>> {
        let one = self.by_object.get(key)?;
        (*one.content.resource_version == *version).then(|| one.content.clone())
    }

    /// Caches content that is in use now.
    pub(super) fn put(&mut self, key: &ObjectKey, content: &Arc<Content>) {
        self.remove(key);
        self.uses += 1;
        let (bytes, used) = (content.size(), (Instant::now(), self.uses));
        self.by_object.insert(key.clone(), Entry { content: content.clone(), bytes, used });
        self.bytes += bytes;
        while self.bytes > MOST_BYTES {
            let oldest = self.by_object.iter().min_by_key(|(_, one)| one.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return };
            self.remove(&oldest);
        }
    }

    /// Bytes of all cached content.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops content that has not been used for a while.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_old = |one: &Entry| now.duration_since(one.used.0) >= KEPT_FOR;
        let old: Vec<_> =
            self.by_object.iter().filter(|(_, one)| is_old(one)).map(|it| it.0.clone()).collect();
        old.iter().for_each(|key| self.remove(key));
    }

    fn remove(&mut self, key: &ObjectKey) {
        if let Some(one) = self.by_object.remove(key) {
            self.bytes -= one.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        names::Kind,
        read::decoded::{Value, decode},
    };

    fn content(bytes: usize) -> Arc<Content> {
        let mut content =
            decode(Kind::ConfigMap, r#"{"metadata":{"uid":"u","resourceVersion":"1"}}"#).unwrap();
        content.values.insert("v".into(), Value { bytes: vec![0; bytes], binary: true });
        Arc::new(content)
    }

    #[test]
    fn what_is_kept_has_a_budget_and_what_was_used_last_stays() {
        let mut kept = ContentCache::default();
        let key = |number: usize| ObjectKey::new(Kind::ConfigMap, "shop", format!("c{number:03}"));
        for number in 0..200 {
            kept.put(&key(number), &content(1 << 20));
            // The first one is in use all the time.
            if let Some(used) = kept.get(&key(0), "1") {
                kept.put(&key(0), &used);
            }
            let sum: usize = kept.by_object.values().map(|one| one.bytes).sum();
            assert!(kept.bytes == sum && sum <= MOST_BYTES, "{sum} of {number}");
        }
        assert_eq!(kept.by_object.len(), 15);
        assert!(kept.get(&key(0), "1").is_some() && kept.get(&key(199), "1").is_some());
        assert!(kept.get(&key(1), "1").is_none() && kept.get(&key(199), "2").is_none());
        kept.put(&key(500), &content(MOST_BYTES + 1));
        assert!(kept.by_object.is_empty() && kept.bytes == 0, "one that is larger than all is not kept");

        kept.put(&key(0), &content(9));
        kept.expire(Instant::now() + KEPT_FOR / 2);
        assert_eq!(kept.by_object.len(), 1);
        kept.expire(Instant::now() + KEPT_FOR);
        assert!(kept.by_object.is_empty() && kept.bytes == 0);
    }
}
