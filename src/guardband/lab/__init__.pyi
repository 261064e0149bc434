from guardband.lab import campaign as campaign
from guardband.lab import paper as paper
from guardband.lab import studies as studies
