//! The order of a template's objects: each object comes after the objects that its expressions read.

use std::collections::BTreeSet;

/// Sorts objects so that each object comes after the objects that it `reads`, by index. The objects otherwise
/// keep their order.
///
/// # Errors
/// The objects of a cycle, in the order of the cycle.
pub(super) fn order(reads: &[BTreeSet<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut sorted: Vec<usize> = Vec::with_capacity(reads.len());
    while sorted.len() < reads.len() {
        let is_next =
            |index: &usize| !sorted.contains(index) && reads[*index].iter().all(|read| sorted.contains(read));
        match (0..reads.len()).find(is_next) {
            Some(next) => sorted.push(next),
            None => return Err(circle(reads, &sorted)),
        }
    }
    Ok(sorted)
}

/// Returns a cycle among the objects that are not sorted; each unsorted object reads a second one.
fn circle(reads: &[BTreeSet<usize>], sorted: &[usize]) -> Vec<usize> {
    let mut walked = Vec::new();
    let mut at = (0..reads.len()).find(|index| !sorted.contains(index));
    while let Some(index) = at {
        if let Some(begin) = walked.iter().position(|known| *known == index) {
            return walked.split_off(begin);
        }
        walked.push(index);
        at = reads[index].iter().copied().find(|read| !sorted.contains(read));
    }
    walked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_after_what_it_reads_and_circles_are_named() {
        let sets =
            |reads: &[&[usize]]| reads.iter().map(|read| read.iter().copied().collect()).collect::<Vec<_>>();
        assert_eq!(order(&sets(&[&[], &[], &[]])), Ok(vec![0, 1, 2]));
        assert_eq!(order(&sets(&[&[2], &[0], &[]])), Ok(vec![2, 0, 1]));
        assert_eq!(order(&sets(&[&[1], &[2], &[1]])), Err(vec![1, 2]));
        assert_eq!(order(&sets(&[&[0]])), Err(vec![0]));
    }
}
