//! Many targets, so that there is something to interrupt.

use std::collections::BTreeMap;

use serde_json::Value;

use super::objects::{Data, data, data_of, namespace};
use super::{Bed, Story, eventually, same};

/// A story with many targets, called `<story>-00` and so on.
pub struct Crowd<'a> {
    /// The story.
    pub story: Story<'a>,
    size: usize,
}

impl<'a> Crowd<'a> {
    /// Makes the targets.
    pub fn new(bed: &'a Bed, name: &'static str, size: usize) -> Crowd<'a> {
        let story = Story::new(bed, name);
        for number in 0..size {
            bed.admin
                .create(&namespace(&story.called(&format!("{number:02}")), &data([("story", name)])))
                .ok();
        }
        Crowd { story, size }
    }

    /// The copies by namespace.
    pub fn copies(&self) -> BTreeMap<String, Value> {
        let all = self.story.admin().list("ConfigMap", "", "app.kubernetes.io/managed-by=copyrator");
        let prefix = self.story.called("");
        let place = |copy: &Value| copy["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let ours =
            |place: &str| place.strip_prefix(&prefix).is_some_and(|number| number.parse::<usize>().is_ok());
        all.into_iter().map(|copy| (place(&copy), copy)).filter(|(place, _)| ours(place)).collect()
    }

    /// How many copies hold this.
    pub fn holding(&self, wanted: &Data) -> usize {
        self.copies().values().filter(|copy| data_of(copy) == *wanted).count()
    }

    /// Waits until at least so many hold it.
    #[track_caller]
    pub fn until_some_hold(&self, wanted: &Data, some: usize) {
        eventually("so many copies are written", || {
            let written = self.holding(wanted);
            if written >= some { Ok(()) } else { Err(format!("{written} of {some}")) }
        });
    }

    /// Waits until all of them do.
    #[track_caller]
    pub fn until_all_hold(&self, wanted: &Data) {
        eventually("every copy is there with the last content", || same(self.holding(wanted), self.size));
    }
}
