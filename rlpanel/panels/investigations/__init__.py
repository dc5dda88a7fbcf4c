"""Page of the run with its reports: claims with marks, a form for new ones, export, a code for an agent."""
