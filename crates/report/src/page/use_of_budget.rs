//! Shows the use of budgets: a table, and a bar for each subject.

use maud::{Markup, html};

use super::parts;
use super::scale::short;
use crate::gather::Survey;
use crate::tables;

/// The number of subjects that have a bar.
const MOST_BARS: usize = 48;

pub(super) fn budgets(survey: &Survey) -> Markup {
    let table = tables::budgets(survey);
    let places = (0..survey.measured.len()).filter(|&at| survey.measured[at].budget.is_some());
    let places: Vec<usize> = places.collect();
    html! {
        @if table.rows.is_empty() {
            p { "No budget and no longest work of a job is known of any subject." }
        } @else {
            p {
                "What a job ran, by its own events: from its first instruction or going on to giving way \
                 or its end, with whatever the kernel did on top. Held against its budget, or what it was \
                 declared to need at most."
            }
            (parts::table(&table, "Use of budgets"))
            ul.bars {
                @for &place in places.iter().take(MOST_BARS) { (bar(survey, place)) }
            }
            @if places.len() > MOST_BARS { p.note { "Bars of the first " (MOST_BARS) " subjects." } }
        }
    }
}

/// Draws the median, the 99th percentile and the maximum of the jobs against the budget.
fn bar(survey: &Survey, place: usize) -> Markup {
    let Some(budget) = survey.measured[place].budget.as_deref() else {
        return html! {};
    };
    let whole = budget.budget.as_nanos().max(1);
    let nanos =
        |percent| budget.used.percentile(percent).map_or(0, punctual_model::Duration::as_nanos);
    let most = budget.used.max().map_or(0, punctual_model::Duration::as_nanos);
    // Use far beyond the budget is drawn as three times the budget.
    let end = whole.max(most.min(whole.saturating_mul(3))) as f64 * 1.02;
    let x = |nanos: u64| format!("{:.1}", (1000.0 * nanos as f64 / end).min(1000.0));
    // There are as many subjects as there are places.
    let name = tables::name(survey, place as u32);
    let seen = format!(
        "half of the jobs used at most {}, 99 % at most {}, the most {}, of {}",
        short(nanos(50.0)),
        short(nanos(99.0)),
        short(most),
        short(whole)
    );
    html! {
        li {
            span.who { bdi { (name) } }
            svg viewBox="0 0 1000 24" preserveAspectRatio="none" role="img" aria-label={ (name) ": " (seen) } {
                path.track d="M0 4H1000V20H0Z" {}
                path.soft d={ "M0 4H" (x(nanos(99.0))) "V20H0Z" } {}
                path.r d={ "M0 4H" (x(nanos(50.0))) "V20H0Z" } {}
                path.most d={ "M" (x(most)) " 2V22" } {}
                path.deadline d={ "M" (x(whole)) " 0V24" } {}
            }
            span.seen { (seen) }
        }
    }
}
