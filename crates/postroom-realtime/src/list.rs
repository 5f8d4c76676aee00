//! A list that removes an element in constant time: each element remembers its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where an element stands in its list. The lock of the list guards it.
#[derive(Debug)]
pub(crate) struct Place(AtomicUsize);

impl Place {
    const NOWHERE: usize = usize::MAX;

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, place: usize) {
        self.0.store(place, Ordering::Relaxed);
    }
}

impl Default for Place {
    fn default() -> Self {
        Self(AtomicUsize::new(Self::NOWHERE))
    }
}

/// An element that remembers its place in one list.
pub(crate) trait Placed {
    fn place(&self) -> &Place;
}

/// Elements in no order.
#[derive(Debug)]
pub(crate) struct List<T> {
    elements: Vec<Arc<T>>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { elements: Vec::new() }
    }
}

impl<T: Placed> List<T> {
    pub(crate) fn add(&mut self, element: Arc<T>) {
        element.place().set(self.elements.len());
        self.elements.push(element);
    }

    /// Removes an element; one that is not there stays away.
    pub(crate) fn remove(&mut self, element: &T) {
        let place = element.place().get();
        let is_there = self
            .elements
            .get(place)
            .is_some_and(|found| std::ptr::eq(Arc::as_ptr(found), element));
        if !is_there {
            return;
        }
        element.place().set(Place::NOWHERE);
        drop(self.elements.swap_remove(place));
        if let Some(moved) = self.elements.get(place) {
            moved.place().set(place);
        }
        if self.elements.len() < self.elements.capacity() / 4 {
            self.elements.shrink_to(self.elements.len() * 2);
        }
    }

    pub(crate) fn elements(&self) -> &[Arc<T>] {
        &self.elements
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Element(u32, Place);

    impl Placed for Element {
        fn place(&self) -> &Place {
            &self.1
        }
    }

    #[test]
    fn elements_come_and_go_in_any_order() {
        let mut list = List::default();
        let elements: Vec<_> = (0..100)
            .map(|number| Arc::new(Element(number, Place::default())))
            .collect();
        for element in &elements {
            list.add(Arc::clone(element));
        }
        for element in elements.iter().step_by(3).chain(elements.iter().rev().step_by(2)) {
            list.remove(element); // some of them twice
        }
        let mut left: Vec<_> = list.elements().iter().map(|element| element.0).collect();
        left.sort_unstable();
        let expected: Vec<_> = (0..100).filter(|number| number % 3 != 0 && number % 2 == 0).collect();
        assert_eq!(left, expected);
        for element in &elements {
            list.remove(element);
        }
        assert!(list.elements().is_empty());
    }
}
