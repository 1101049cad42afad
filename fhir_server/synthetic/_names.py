"""Names of persons, streets and towns. They are of mixed origins and belong to no real person."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FEMALE = _words(
    "Abena Adela Agnes Aiko Aisha Alma Amara Anneke Anya Asha Beatriz Bianca Brigid Carmen Chiara Clara Dalia Danuta "
    "Delia Edith Elif Eszter Farida Fatima Freya Gwen Hana Helga Ines Ingrid Irena Jana Joy Judith Kalinda Keiko Laila "
    "Leonor Lien Linnea Lucia Mairead Mariam Mei Mina Nadia Nia Noor Odile Oksana Paloma Petra Priya Rosa Ruth Saoirse "
    "Shira Simone Soo-Jin Tamar Thandi Ursula Wanda Yara Zofia"
)
MALE = _words(
    "Abel Ahmed Akira Albin Amir Anselm Arjun Arlo Bao Bela Bogdan Caleb Cedric Cyrus Dario Desmond Diego Emeka Emil "
    "Enzo Farid Felix Gareth Gustav Hamid Hector Hugo Ibrahim Imre Ivo Jamal Jasper Jorge Kaito Kofi Kwame Lars "
    "Leandro Levi Lukas Magnus Malik Marek Matteo Milan Mustafa Nabil Niall Nuno Omar Oskar Pavel Rafael Ravi Ruben "
    "Samir Sean Stellan Tadeusz Tariq Tomas Umberto Viktor Walter Yusuf Zoltan"
)
FAMILIES = _words(
    "Abara Adeyemi Almeida Andersson Arslan Baptiste Barkley Bekele Belmonte Bergstrom Boateng Bodnar Brannigan "
    "Calderon Castellan Chaudhry Chowdhury Cisneros Corrigan Dahlgren Delacroix Demir Diallo Dragomir Eastwick Eklund "
    "Falconer Farkas Feldstein Fontaine Galvez Gebremariam Grabowski Greywell Gunderson Haddad Halloran Hargrove "
    "Hashimoto Hegedus Horvat Ibarra Ishikawa Iyer Jankovic Jokinen Kapoor Kessler Kowalczyk Lachance Lindholm "
    "Lombardi Mahlangu Marchetti Mbeki Mendoza Moravec Nakagawa Nazari Novotny Obafemi Ochoa Okonkwo Olafsson Osei "
    "Pacheco Papadakis Pelletier Petrenko Quintana Rahimi Rasmussen Redfeather Rosales Rutherby Saito Salcedo "
    "Sandoval-Cruz Santangelo Schreiber Shapira Sithole Skarsgard Soriano Stavros Szabo Takahashi Tembo Thibault "
    "Tran-Nguyen Uchida Valdivia Vandermeer Vasquez Villareal Wexler Whitlock Wojcik Yamada Yilmaz Zamora Zielinski"
)
STREETS = _words("Alder Birch Cedar Chapel Clay Dover Elm Fern Granite Harbor Hazel Juniper Lark Linden Maple Mill")
WAYS = ("Avenue", "Court", "Drive", "Lane", "Road", "Street", "Terrace", "Way")
TOWNS = (
    ("Ashbourne Falls", "OR", "970"),
    ("Brightwater", "MN", "553"),
    ("Cedar Hollow", "TX", "786"),
    ("Dunmore Heights", "PA", "184"),
    ("Eastmere", "MA", "019"),
    ("Fairlow", "CA", "940"),
    ("Glenharbor", "ME", "045"),
    ("Kestrel Point", "WA", "982"),
    ("Larkspur Bend", "CO", "805"),
    ("North Tilden", "IL", "600"),
)
RACES = (
    ("2106-3", "White"),
    ("2106-3", "White"),
    ("2106-3", "White"),
    ("2054-5", "Black or African American"),
    ("2054-5", "Black or African American"),
    ("2028-9", "Asian"),
    ("1002-5", "American Indian or Alaska Native"),
    ("2131-1", "Other Race"),
)
ETHNICITIES = (
    ("2186-5", "Non-Hispanic"),
    ("2186-5", "Non-Hispanic"),
    ("2186-5", "Non-Hispanic"),
    ("2135-2", "Hispanic or Latino"),
)
