//! The view Where: a table of namespaces by rules, with a mark for each rule's copies in a namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::response::Response;
use maud::{Markup, html};

use super::{
    frame::{Frame, notes},
    overview::said,
    state::{STATES, of_copy},
    visit::Visit,
};
use crate::{
    asked::Asked,
    explain::{CopyRow, CopyState},
    names::ObjectKey,
    paged::{Page, page},
    problem::Problem,
    rest::copy_rows,
    scoped_survey::{ScopedSurvey, requested_surveys},
};

/// How many rules have a column. With more rules, the table says so, and a filter leads to the remaining
/// rules.
const COLUMNS: usize = 50;
/// Up to this number of rules, the column headings are horizontal.
const FEW: usize = 6;
/// How many marks a page has at most, so that it stays small.
const CELLS: usize = 1000;

/// Answers `GET /where`: which rule has copies in which namespace.
pub(super) async fn view(visit: Visit) -> Response {
    visit.answer("/where", "Where", shown).await
}

async fn shown(visit: Arc<Visit>) -> Result<Markup, Problem> {
    let requested = requested_surveys(&visit.seat, &visit.asked).await?;
    let namespaces = requested.surveys.iter().flat_map(|ScopedSurvey { namespace, survey, .. }| {
        let named = namespace.clone().map(|namespace| vec![namespace]);
        named.unwrap_or_else(|| survey.world.namespaces().keys().cloned().collect())
    });
    let namespaces = namespaces.map(|namespace| namespace.to_string()).collect();
    let matrix = Matrix::new(copy_rows(&requested), namespaces, &visit.asked);
    render(&visit.frame, &visit.asked, matrix, &requested.notes)
}

/// One rule's copies in one namespace.
#[derive(Debug)]
pub(super) struct Cell {
    /// The copy in the worst state.
    pub line: CopyRow,
    pub copies: usize,
}

/// A table of copies, with a row for each namespace and a column for each rule.
#[derive(Debug)]
pub(super) struct Matrix {
    pub rules: Vec<String>,
    /// How many rules have no column.
    pub hidden: usize,
    pub rows: Vec<(String, BTreeMap<String, Cell>)>,
}

impl Matrix {
    /// Builds the table. The request filters by part of the namespace's name, by part of the rule's name, and
    /// by state.
    pub(super) fn new(lines: Vec<CopyRow>, mut places: BTreeSet<String>, asked: &Asked) -> Self {
        let has =
            |text: &str, part: &Option<String>| part.as_ref().is_none_or(|part| text.contains(part.as_str()));
        let mut cells: BTreeMap<String, BTreeMap<String, Cell>> = BTreeMap::new();
        let mut rules = BTreeSet::new();
        for line in lines {
            let rule = line.rule.as_ref().map_or_else(|| "no rule".to_owned(), ToString::to_string);
            let is_asked =
                asked.state.as_ref().is_none_or(|state| state.eq_ignore_ascii_case(line.state.as_str()));
            if !has(&rule, &asked.rule) || !is_asked {
                continue;
            }
            rules.insert(rule.clone());
            places.insert(line.slot.namespace.to_string());
            let row = cells.entry(line.slot.namespace.to_string()).or_default();
            match row.get_mut(&rule) {
                Some(cell) => {
                    cell.copies += 1;
                    if line.state < cell.line.state {
                        cell.line = line;
                    }
                }
                None => {
                    row.insert(rule, Cell { line, copies: 1 });
                }
            }
        }
        let hidden = rules.len().saturating_sub(COLUMNS);
        let is_shown = |place: &String| {
            has(place, &asked.namespace) && (asked.state.is_none() || cells.contains_key(place))
        };
        places.retain(is_shown);
        let rows = places.into_iter().map(|place| {
            let row = cells.remove(&place).unwrap_or_default();
            (place, row)
        });
        Self { rows: rows.collect(), rules: rules.into_iter().take(COLUMNS).collect(), hidden }
    }

    fn worst(row: &BTreeMap<String, Cell>) -> CopyState {
        row.values().map(|cell| cell.line.state).min().unwrap_or(CopyState::Current)
    }
}

/// The body of the page: as many rows as fit, rows with problems first.
pub(super) fn render(
    frame: &Frame,
    asked: &Asked,
    matrix: Matrix,
    said_first: &[String],
) -> Result<Markup, Problem> {
    let Matrix { rules, hidden, rows } = matrix;
    let limit = (CELLS / rules.len().max(1)).clamp(10, asked.limit);
    let asked_rows = Asked { limit, ..asked.clone() };
    // Sorts the namespaces with problems first.
    let key = |(place, row): &(String, BTreeMap<String, Cell>)| {
        let is_calm = Matrix::worst(row) > CopyState::Outdated;
        vec![usize::from(is_calm).to_string(), place.clone()]
    };
    let Page { items, total, next, .. } = page(rows, key, &asked_rows, Vec::new())?;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let filters =
        [("namespace", text(&asked.namespace)), ("rule", text(&asked.rule)), ("state", text(&asked.state))];
    Ok(html! {
        h1 { "Where" }
        (notes(said_first))
        form .filters method="get" action=(frame.at("/where")) role="search" {
            (frame.kept())
            label { "Namespace" input name="namespace" value=(filters[0].1) placeholder="part of its name" spellcheck="false"; }
            label { "Rule" input name="rule" value=(filters[1].1) placeholder="part of its name" spellcheck="false"; }
            label { "State"
                select name="state" {
                    option value="" { "any" }
                    @for state in STATES { option selected[filters[2].1.eq_ignore_ascii_case(state.as_str())] { (state.as_str()) } }
                }
            }
            button { "Filter" }
        }
        @if items.is_empty() || rules.is_empty() {
            div .empty {
                h2 { "Nothing is copied here" }
                p { "No copy matches these names and this state. " a href=(frame.link("/where", &[])) { "Show all" }
                    ", or ask why a namespace has no copy: " code { "copyrator why-not NAMESPACE" } "." }
            }
        } @else {
            p .legend { @for state in STATES { (of_copy(state).with(state.as_str())) " " } }
            div .scroll tabindex="0" role="region" aria-label="Namespaces by rules" {
                table .matrix .few[rules.len() <= FEW] {
                    thead {
                        tr {
                            th scope="col" { "Namespace" }
                            @for rule in &rules {
                                @let (of, name) = rule.split_once('/').unwrap_or(("", rule));
                                @let name = name.strip_prefix("template:").unwrap_or(name);
                                th scope="col" .rule { span { (name) @if !of.is_empty() { " " small { (of) } } } }
                            }
                        }
                    }
                    tbody {
                        @for (place, row) in &items {
                            tr {
                                th scope="row" { (place) }
                                @for rule in &rules { td { @if let Some(cell) = row.get(rule) { (mark(frame, cell)) } } }
                            }
                        }
                    }
                }
            }
            p .quiet { (items.len()) " of " (total) " namespaces"
                @if hidden > 0 { ", " (rules.len()) " of " (rules.len() + hidden) " rules: filter by rule to see the others" } "." }
            @if let Some(next) = &next {
                @let mut query: Vec<(&str, &str)> = filters.iter().map(|(name, value)| (*name, value.as_str())).collect();
                @let () = query.push(("continue", next));
                p { a .more href=(frame.link("/where", &query)) { "Next namespaces" } }
            }
        }
    })
}

fn mark(frame: &Frame, cell: &Cell) -> Markup {
    let copy = &cell.line;
    let more = if cell.copies > 1 { format!(" and {} more", cell.copies - 1) } else { String::new() };
    let why = if copy.state == CopyState::Current {
        String::new()
    } else {
        format!(": {}", said(copy.reason.as_str(), &copy.message_with_time()))
    };
    let title = format!("{}: {} {}{more}{why}", copy.state, copy.slot.kind, copy.slot.name);
    let ObjectKey { kind, namespace, name } = &copy.slot;
    html! { a href=(frame.object(&kind.to_string(), namespace, name)) title=(title) { (of_copy(copy.state).mark()) } }
}
